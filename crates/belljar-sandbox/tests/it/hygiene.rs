//! What is left behind: nothing.
