"""The shapes on the wire: streams, groups, journals and problems as JSON objects."""
