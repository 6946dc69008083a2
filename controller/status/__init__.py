"""The status of streams, writers, groups and the controller, for dashboard, metrics and commands."""
