"""The faulty rank runs a command and waits for its end, which does not come."""

import subprocess

import rig

TRUTH = {"or_silent": True, "kinds": ["rank_not_joined"], "causes": ["user_code"], "where": "upload_logs"}


def upload_logs() -> None:
    """Run a command that hangs."""
    subprocess.run(["sleep", str(int(rig.NEVER))], check=True)


def main() -> None:
    """Train; at the faulty step one rank runs a command."""
    place = rig.start()
    rig.train(place, upload_logs)


if __name__ == "__main__":
    main()
