"""Rank 0 records each version of its configuration in git, by many short-lived children; the others wait."""

import os
import subprocess

import ranks

ENVIRONMENT = {**os.environ, "GIT_AUTHOR_NAME": "rank 0", "GIT_COMMITTER_NAME": "rank 0", "EMAIL": "rank0@example.org"}


def record(deadline: float) -> None:
    """Commit one file after another."""
    repository = ranks.FOLDER / "configuration"
    subprocess.run(["git", "init", "-q", str(repository)], check=True)
    number = 0
    while ranks.before(deadline):
        (repository / f"{number}.yaml").write_text(f"lr: {number}\n")
        for command in (["add", "."], ["commit", "-q", "-m", f"version {number}"]):
            subprocess.run(["git", "-C", str(repository), *command], check=True, env=ENVIRONMENT)
        number += 1


if __name__ == "__main__":
    ranks.others_wait_while(record)
