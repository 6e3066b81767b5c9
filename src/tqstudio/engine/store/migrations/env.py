"""Alembic's entry: the connection is handed in by `database.migrate`, never opened from a URL here."""

import logging

from alembic import context
from sqlmodel import SQLModel

import tqstudio.engine.store.db.tables  # noqa: F401 - registers the tables

# The steps of a migration are no news for the log of a supervisor.
logging.getLogger("alembic").setLevel(logging.WARNING)
context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=SQLModel.metadata,
    # SQLite changes a table by copying it; batch mode keeps that possible from the first migration on.
    render_as_batch=True,
    transaction_per_migration=False,
)
context.run_migrations()
