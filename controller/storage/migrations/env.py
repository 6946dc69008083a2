"""Run by Alembic: migrates over the connection that `controller.storage.upgrade` passes, never over one of its own."""

from alembic import context

from controller.storage.schema import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    render_as_batch=True,  # SQLite cannot alter most things in place
)
with context.begin_transaction():
    context.run_migrations()
