//! A server that runs, and is asked at its address.
