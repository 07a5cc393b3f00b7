//! What each command does.

mod check;
mod drop;
mod reload;
mod run;
mod status;
mod verify;

pub(crate) use check::check;
pub(crate) use drop::drop;
pub(crate) use reload::reload;
pub(crate) use run::run;
pub(crate) use status::status;
pub(crate) use verify::verify;
