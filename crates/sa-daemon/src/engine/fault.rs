//! Faults that the tests put into the engine, to see that they are caught. A built daemon has none.

/// One fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(not(test), allow(dead_code))]
pub enum Fault {
    /// After a gap a subscription is not made again.
    LostResubscription,
    /// An answer counts although it is to a request of before a change.
    StaleTid,
    /// A subscription goes when its last user but one does.
    CountOffByOne,
    /// What a registration wants is wanted for ever.
    LeakedWish,
    /// A repeated Report is delivered again.
    RepeatedReport,
    /// The next SM's transaction ids are taken for those of the last.
    RememberedSm,
    /// Of two subscriptions that bring the same, both deliver it.
    DoubledOverlap,
    /// A subscription goes before the one that takes its place stands.
    BreakBeforeMake,
    /// Nobody is told of a gap.
    UntoldGap,
    /// Nobody is told of what did not fit.
    SilentOverflow,
    /// A Report gets no answer.
    UnansweredReport,
    /// What the SA has forgotten is not missed.
    BlindAudit,
    /// What the SA has too much stays there.
    KeptStray,
    /// Requests go to where the SM was.
    FormerSm,
}

/// Whether this thread's engines have it.
#[cfg(not(test))]
pub const fn is(_fault: Fault) -> bool {
    false
}

#[cfg(test)]
thread_local! {
    static FAULT: std::cell::Cell<Option<Fault>> = const { std::cell::Cell::new(None) };
}

/// Whether this thread's engines have it.
#[cfg(test)]
pub fn is(fault: Fault) -> bool {
    FAULT.get() == Some(fault)
}

/// This thread's engines have it while `work` is done.
#[cfg(test)]
pub fn with<T>(fault: Fault, work: impl FnOnce() -> T) -> T {
    /// Without it also after a panic.
    struct End;
    impl Drop for End {
        fn drop(&mut self) {
            FAULT.set(None);
        }
    }
    FAULT.set(Some(fault));
    let _end = End;
    work()
}
