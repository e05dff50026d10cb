//! Steps of loops whose length a program can choose, counted for tests: what one program may cost the others is
//! bounded in work and not in time.

#[cfg(test)]
thread_local! {
    static STEPS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// So many steps are taken.
#[cfg(test)]
pub fn steps(count: usize) {
    STEPS.set(STEPS.get() + count);
}

/// So many steps are taken.
#[cfg(not(test))]
pub fn steps(_count: usize) {}

/// Steps of this thread since the last look.
#[cfg(test)]
pub fn taken() -> usize {
    STEPS.take()
}
