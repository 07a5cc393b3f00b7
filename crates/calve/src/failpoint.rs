//! Named places where a crash test has the process die as by `kill -9`: before and after every effect at a port.
//!
//! `CALVE_FAILPOINT=lake.commit.after` dies at the first hit, `lake.commit.after:3` at the third. The crates below have
//! places of their own, inside an effect; these here are around one. Only in builds with the feature `failpoints`.
//!
//! | place | around |
//! |---|---|
//! | `lake.create` | a table being made |
//! | `lake.commit` | a commit with changes |
//! | `load.commit` | the commit that publishes a load |
//! | `lake.property_commit` | a commit of properties only |
//! | `clean-up` | files that nothing references being deleted |
//! | `writer.write` | files of a checkpoint being written |
//! | `load.finish` | the last files of a load being completed |
//! | `positions.put_intent`, `positions.advance` | local state |
//! | `source.follow`, `source.keep_log`, `source.start_load`, `source.acknowledge` | the source |
//!
//! Each has `.before` and `.after`.

mod ports;

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

pub(crate) use ports::decorate;

/// The place asked for, and at which hit of it.
struct Wanted {
    place: String,
    hit: u64,
}

fn wanted() -> Option<&'static Wanted> {
    static WANTED: OnceLock<Option<Wanted>> = OnceLock::new();
    let read = || {
        let text = std::env::var("CALVE_FAILPOINT").ok()?;
        Some(match text.rsplit_once(':') {
            Some((place, hit)) => Wanted { place: place.to_owned(), hit: hit.parse().ok()? },
            None => Wanted { place: text, hit: 1 },
        })
    };
    WANTED.get_or_init(read).as_ref()
}

/// Dies here if this is the place asked for.
fn hit(place: &str) {
    static HITS: AtomicU64 = AtomicU64::new(0);
    if let Some(wanted) = wanted()
        && wanted.place == place
        && HITS.fetch_add(1, Ordering::SeqCst) + 1 == wanted.hit
    {
        eprintln!("failpoint {place}");
        std::process::abort();
    }
}
