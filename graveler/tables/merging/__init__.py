"""The merge of an Iceberg table: three metadata files become one, or a conflict."""
