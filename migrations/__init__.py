"""The steps, run by Alembic, that bring the controller's store to the current schema."""
