"""The migrations of the controller's store, run by Alembic."""
