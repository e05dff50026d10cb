//! The programs that get the notices: processes of their own, each with a number.

use std::io::PipeWriter;
use std::process::{Child, Command};

use crate::Outcome;

/// Processes, ended with this.
pub struct Programs(Vec<Child>);

impl Programs {
    /// Starts so many. Each writes its number to the pipe, as often as the load says.
    pub fn start(
        count: usize,
        says: PipeWriter,
        mut command: impl FnMut(usize) -> Command,
    ) -> Outcome<Programs> {
        let mut all = Programs(Vec::new());
        for number in 0..count {
            all.0.push(command(number).stdout(says.try_clone()?).spawn()?);
        }
        Ok(all)
    }

    /// Waits until they end by themselves, which has to be well.
    pub fn finish(mut self) -> Outcome<()> {
        for mut child in std::mem::take(&mut self.0) {
            let status = child.wait()?;
            if !status.success() {
                return Err(format!("a program ended with {status}").into());
            }
        }
        Ok(())
    }
}

impl Drop for Programs {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
