//! The results of an earlier run, from the lines that the driver has written.

use serde_json::Value;

use crate::cases::{CASES, Case, Role};
use crate::outcome::{Outcome, State};
use crate::run::Record;

/// Reads all lines. Entrants that failed have none, and are left out.
///
/// # Errors
/// A description of the first line that is not a result of a case.
pub(crate) fn read(lines: &str) -> Result<Vec<Outcome>, String> {
    let mut outcomes: Vec<Outcome> = Vec::new();
    for (i, line) in lines.lines().enumerate() {
        add(&mut outcomes, line).map_err(|why| format!("line {}: {why}", i + 1))?;
    }
    Ok(outcomes)
}

fn add(outcomes: &mut Vec<Outcome>, line: &str) -> Result<(), String> {
    let value: Value = serde_json::from_str(line).map_err(|error| error.to_string())?;
    let word = |key: &str| value[key].as_str().ok_or(format!("there is no \"{key}\""));
    let (name, label) = (word("case")?, word("entrant")?);
    let case = CASES.iter().find(|case| case.name == name).ok_or(format!("there is no case {name}"))?;
    let result = value["result"].as_object().ok_or("there is no result")?;
    let procs = result.get("procs").and_then(Value::as_u64).ok_or("the result has no number of Ps")? as usize;
    let record = Record::new(value["result"].to_string(), result);
    let same = |outcome: &Outcome| outcome.case.name == name && outcome.procs == procs;
    let at = outcomes.iter().position(same).unwrap_or_else(|| {
        outcomes.push(Outcome { case, procs, entrants: Vec::new() });
        outcomes.len() - 1
    });
    let entrants = &mut outcomes[at].entrants;
    let of = entrants.iter().position(|(known, _, _)| known == label).unwrap_or_else(|| {
        entrants.push((label.into(), role(case, label), State::Runs(Vec::new())));
        entrants.len() - 1
    });
    entrants[of].2.add(0, Ok(record));
    Ok(())
}

/// Returns the role of an entrant. One that the case does not know is shown.
fn role(case: &Case, label: &str) -> Role {
    case.entrants.iter().find(|entrant| entrant.label == label).map_or(Role::Shown, |entrant| entrant.role)
}

#[cfg(test)]
mod tests {
    use super::read;
    use crate::cases::Role;
    use crate::plot;

    const LINES: &str = r#"{"case": "yield", "entrant": "ours", "round": 1, "result": {"workload": "yield", "procs": 2, "ns_per_yield": 20}}
{"case": "yield", "entrant": "go", "round": 1, "result": {"workload": "yield", "procs": 2, "ns_per_yield": 80}}
{"case": "yield", "entrant": "<old>", "round": 1, "result": {"workload": "yield", "procs": 2, "ns_per_yield": 40}}
{"case": "yield", "entrant": "ours", "round": 1, "result": {"workload": "yield", "procs": 1, "ns_per_yield": 10}}
{"case": "yield", "entrant": "ours", "round": 2, "result": {"workload": "yield", "procs": 2, "ns_per_yield": 30}}
"#;

    #[test]
    fn the_runs_of_an_entrant_come_together() {
        let outcomes = read(LINES).unwrap();
        assert_eq!(outcomes.iter().map(|outcome| outcome.procs).collect::<Vec<_>>(), [2, 1]);
        let entrants = &outcomes[0].entrants;
        assert_eq!(
            entrants.iter().map(|(_, role, _)| *role).collect::<Vec<_>>(),
            [Role::Ours, Role::Peer, Role::Shown]
        );
        assert_eq!(entrants[0].2.figure("ns_per_yield").map(|figure| figure.median), Some(25.0));
        assert_eq!(outcomes[0].verdicts()[0].ratio, Some(25.0 / 80.0));
    }

    #[test]
    fn what_is_not_a_result() {
        for line in [
            "",
            "{}",
            r#"{"case": "x", "entrant": "go", "result": {"procs": 1}}"#,
            r#"{"case": "yield", "entrant": "go", "result": {}}"#,
        ] {
            assert!(read(&format!("{LINES}{line}\n")).is_err(), "{line}");
        }
    }

    #[test]
    fn plots_show_what_was_read() {
        let outcomes = read(LINES).unwrap();
        let (whole, front) = (plot::whole(&outcomes), plot::front(&outcomes));
        assert!(whole.contains("yield, 2 P: ns_per_yield") && whole.contains("yield, 1 P: ns_per_yield"));
        assert!(front.contains("25 ns · go 80 ns"), "{front}");
        // The legend, ours, go and the added program; on one P ours alone.
        assert_eq!(whole.matches("<circle").count(), 3 + 3 + 1);
        assert_eq!(front.matches("<circle").count(), 3 + 3);
    }
}
