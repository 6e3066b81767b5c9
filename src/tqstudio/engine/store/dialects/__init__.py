"""What is particular to SQLite or to PostgreSQL: connections, triggers, and parts of statements."""
