"""Which result of a preflight a row is: one that is sent twice is kept once."""

from alembic import op
from sqlalchemy import Column, String

revision = "8"
down_revision = "7"


def upgrade() -> None:
    """Add the column. Results that are kept already have none: nobody sends them again."""
    op.add_column("preflights", Column("result", String(64), nullable=True))
    op.create_index("preflights_once", "preflights", ["result"], unique=True)
