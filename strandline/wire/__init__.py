"""What goes over the wire: streams, groups, journals and problems as JSON objects, and back."""
