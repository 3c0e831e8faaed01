"""What a receiver calls a message, by which what follows goes into its thread."""

from alembic import op
from sqlalchemy import Column, Text

revision = "9"
down_revision = "8"


def upgrade() -> None:
    """Add a column; a collector of the release before leaves it empty."""
    op.add_column("deliveries", Column("reference", Text, nullable=True))
