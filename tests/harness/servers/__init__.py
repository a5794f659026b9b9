"""Fixtures of servers, which start on first use; each session has one of each kind."""

DATABASES = {
    "postgres": ("postgres_url", "postgresql://ada@127.0.0.1:{port}/lake"),
    "mysql": ("mysql_url", "mysql://ada@127.0.0.1:{port}/lake"),
    "dynamodb": (
        "dynamodb_uri",
        "dynamodb://lake?endpoint=http://127.0.0.1:{port}&region=us-east-1",
    ),
}
"""For each driver of a database server, the fixture of a URI, and the URI of a port on loopback."""
