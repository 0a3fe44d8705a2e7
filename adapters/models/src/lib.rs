//! The models a user has installed: fetched on request, checked by hash, kept in a folder.
