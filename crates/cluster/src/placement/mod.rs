//! RLinf's grammar of places, and what it asks for.
