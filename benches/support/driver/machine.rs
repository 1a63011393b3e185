//! The properties of the machine on which figures depend.

use std::fs;
use std::process::Command;

/// The machine on which a driver runs.
pub struct Machine {
    date: String,
    load_at_start: String,
}

impl Machine {
    /// Reads the state of the machine. Call this before any measurement.
    pub fn at_start() -> Machine {
        let date = said(Command::new("date").args(["-u", "+%Y-%m-%d %H:%M UTC"]));
        Machine { date, load_at_start: load() }
    }

    /// Returns the facts of the machine, as names and values.
    pub fn facts(&self) -> [(&'static str, String); 6] {
        let cores = std::thread::available_parallelism().map_or("unknown".into(), |n| n.to_string());
        [
            ("date", self.date.clone()),
            ("processor", processor().unwrap_or("unknown".into())),
            ("cores", cores),
            ("kernel", said(Command::new("uname").arg("-sr"))),
            ("load average at the start, and now", format!("{}; {}", self.load_at_start, load())),
            ("compiler", said(Command::new("rustc").arg("-V"))),
        ]
    }

    /// True if other programs were running at the start, so that figures are unreliable.
    pub fn was_busy(&self) -> bool {
        let last_minute = self.load_at_start.split(' ').next().and_then(|load| load.parse().ok());
        last_minute.is_some_and(|load: f64| load > 0.5)
    }
}

/// Returns the load averages of the last 1, 5 and 15 minutes.
fn load() -> String {
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    load.split(' ').take(3).collect::<Vec<_>>().join(" ")
}

fn processor() -> Option<String> {
    let info = fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = info.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().into())
}

fn said(command: &mut Command) -> String {
    first_line(command).unwrap_or("unknown".into())
}

/// Returns the first line of a command's output. Returns `None` if the command fails or prints nothing.
pub fn first_line(command: &mut Command) -> Option<String> {
    let output = command.output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().next().map(|line| line.trim().to_string()).filter(|line| !line.is_empty())
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::{Machine, first_line};

    #[test]
    fn busy_is_more_than_half_a_processor() {
        let busy = |load: &str| Machine { date: String::new(), load_at_start: load.into() }.was_busy();
        assert_eq!(["0.50 9.00 9.00", "0.51 0.00 0.00", ""].map(busy), [false, true, false]);
    }

    #[test]
    fn what_commands_say() {
        let of = |script| first_line(Command::new("sh").args(["-c", script]));
        assert_eq!(of("echo ' a '; echo b").as_deref(), Some("a"));
        assert_eq!(of("exit 1"), None);
        assert_eq!(first_line(&mut Command::new("/no/such/program")), None);
    }
}
