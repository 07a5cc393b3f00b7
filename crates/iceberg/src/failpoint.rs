//! Named places at which crash tests end the process. Without the feature `failpoints` they are nothing at all.
//!
//! `CALVE_FAILPOINT=commit.swapped` aborts at the first hit of that place, `commit.swapped:3` at the third.

/// The process may end here, when a crash test says so.
#[cfg(not(feature = "failpoints"))]
#[inline]
pub(crate) fn hit(_name: &str) {}

/// The process may end here, when a crash test says so.
#[cfg(feature = "failpoints")]
pub(crate) fn hit(name: &str) {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU64, Ordering};

    static WANTED: OnceLock<Option<(String, u64)>> = OnceLock::new();
    static HITS: AtomicU64 = AtomicU64::new(0);

    let wanted = WANTED.get_or_init(|| {
        let text = std::env::var("CALVE_FAILPOINT").ok()?;
        match text.split_once(':') {
            None => Some((text, 1)),
            Some((name, count)) => Some((name.to_owned(), count.parse().ok()?)),
        }
    });
    if let Some((wanted, count)) = wanted
        && wanted == name
        && HITS.fetch_add(1, Ordering::SeqCst) + 1 == *count
    {
        eprintln!("failpoint {name} hit, aborting");
        std::process::abort();
    }
}
