"""The database itself: connection, transactions, schema, errors, backup."""
