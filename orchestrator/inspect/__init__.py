"""What audit is asked about (wheel, folder, file) turned into bytes."""
