"""What is particular to SQLite or to PostgreSQL: connections, triggers, and parts of statements."""

TRANSACTION = "transaction"
"""Key of `Connection.info`: the number of the transaction, where a database can be asked for its fate."""
