//! Places where a test may have the process die, as by `kill -9`, without a chance to clean up.
//!
//! `CALVE_FAILPOINT=name` or `name:n` picks the n-th time that a place is passed. Without the feature `failpoints` a
//! place compiles to nothing.

/// Dies here if this is the place asked for.
#[cfg(feature = "failpoints")]
pub(crate) fn hit(name: &str) {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU64, Ordering};

    static WANTED: OnceLock<Option<(String, u64)>> = OnceLock::new();
    static PASSED: AtomicU64 = AtomicU64::new(0);

    let wanted = WANTED.get_or_init(|| {
        let text = std::env::var("CALVE_FAILPOINT").ok()?;
        Some(match text.rsplit_once(':').and_then(|(name, n)| Some((name.to_owned(), n.parse().ok()?))) {
            Some(counted) => counted,
            None => (text, 1),
        })
    });
    if let Some((wanted, n)) = wanted
        && wanted == name
        && PASSED.fetch_add(1, Ordering::SeqCst) + 1 == *n
    {
        std::process::abort();
    }
}

/// Nothing: failpoints are not compiled in.
#[cfg(not(feature = "failpoints"))]
pub(crate) fn hit(_name: &str) {}
