//! The stream, the slot and the publication against real servers.

mod database;
mod identity;
mod in_progress;
mod login;
mod membership;
mod pipeline;
mod recorder;
mod stream;
