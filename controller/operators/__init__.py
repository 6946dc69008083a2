"""What operators are shown: the status of streams, writers, groups and the controller, metrics, log lines, words."""
