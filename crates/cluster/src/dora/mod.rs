//! dora: the files that it is started with, and its command line.
