//! A server that is started, and asked over its standard input and output.
