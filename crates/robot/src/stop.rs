//! The wish to stop, shared by everybody who can have it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A flag that says: stop. Once raised it stays so. Clones share it.
#[derive(Clone, Default)]
pub struct StopToken {
    raised: Arc<AtomicBool>,
    also: Option<Arc<dyn Fn() -> bool + Send + Sync>>,
}

impl std::fmt::Debug for StopToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StopToken").field("is_raised", &self.is_raised()).finish()
    }
}

impl StopToken {
    /// Nobody wants to stop.
    pub fn new() -> Self {
        Self::default()
    }

    /// Also raised whenever `also` says so: a signal that the process received.
    pub fn or_when(also: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self { raised: Arc::default(), also: Some(Arc::new(also)) }
    }

    /// Stop.
    pub fn raise(&self) {
        self.raised.store(true, Ordering::SeqCst);
    }

    /// Whether somebody wants to stop.
    pub fn is_raised(&self) -> bool {
        self.raised.load(Ordering::SeqCst) || self.also.as_ref().is_some_and(|also| also())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clones_share_the_wish() {
        let token = StopToken::new();
        let other = token.clone();
        assert!(!other.is_raised());
        token.raise();
        assert!(other.is_raised() && StopToken::or_when(|| true).is_raised());
    }
}
