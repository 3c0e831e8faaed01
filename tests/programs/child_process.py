"""The faulty rank runs a command and waits for its end, which does not come."""

import subprocess

import rig

TRUTH = {"or_silent": True, "kinds": ["rank_not_joined"], "causes": ["user_code"], "where": "upload_logs"}


def upload_logs() -> None:
    """Run a command that hangs."""
    subprocess.run(["sleep", str(int(rig.NEVER))], check=True)


if __name__ == "__main__":
    rig.train(rig.start(), upload_logs)
