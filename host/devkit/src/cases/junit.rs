//! Reports in the format JUnit.

use super::TestReport;
use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};
use std::time::Duration;

/// The report as XML.
///
/// # Errors
/// It cannot be written.
pub(super) fn document(report: &TestReport) -> Result<String, String> {
    let mut document = Report::new(&report.plugin);
    let mut suites: Vec<TestSuite> = Vec::new();
    for result in &report.cases {
        let status = match (&result.error, result.passed || result.accepted) {
            (Some(why), _) => failed(NonSuccessKind::Error, why.clone()),
            (None, true) => TestCaseStatus::success(),
            (None, false) => {
                let lines = result.differences.iter();
                let lines = lines.map(|one| format!("{}: expected {}, found {}", one.what, one.expected, one.found));
                failed(NonSuccessKind::Failure, lines.collect::<Vec<_>>().join("\n"))
            }
        };
        let mut case = TestCase::new(result.name.as_str(), status);
        case.set_classname(result.file.as_str()).set_time(Duration::from_millis(result.took_ms));
        if !result.log.is_empty() {
            case.set_system_out(result.log.join("\n"));
        }
        match suites.iter_mut().find(|suite| suite.name.as_str() == result.file) {
            Some(suite) => drop(suite.add_test_case(case)),
            None => {
                let mut suite = TestSuite::new(result.file.as_str());
                suite.add_test_case(case);
                suites.push(suite);
            }
        }
    }
    document.add_test_suites(suites);
    document.to_string().map_err(|error| error.to_string())
}

fn failed(kind: NonSuccessKind, text: String) -> TestCaseStatus {
    let mut status = TestCaseStatus::non_success(kind);
    status.set_message(text.lines().next().unwrap_or_default()).set_description(text);
    status
}
