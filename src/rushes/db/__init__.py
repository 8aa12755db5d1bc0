"""The database: connections, what differs between SQLite and PostgreSQL, the schema."""
