//! Prompts on the memory store.
