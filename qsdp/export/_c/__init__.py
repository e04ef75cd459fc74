"""C99 source of the integer form: `export` has `to_c`, and the other modules one part of the files each."""
