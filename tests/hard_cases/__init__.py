"""What goes wrong between real processes, through the public API and on the real clock."""
