"""The tables of the first release. A new store is made with the newest tables, so nothing is to be done for these."""

revision = "8"
down_revision = None


def upgrade() -> None:
    """Do nothing: stores begin here, or later."""
