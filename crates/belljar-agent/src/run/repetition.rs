//! Loop detection: finds repetition by actions and their results, not by their wording. The model gets a note at the
//! second time, and the run is rolled back to before it at the third.

use belljar_protocol::NameInfo;

use super::answers::answer_of;
use super::event::CallResult;
use super::machine::{Call, Run, Step};
use super::words;

impl Run {
    pub(super) fn notice_repetition(&mut self, number: u32, call: &Call, result: &CallResult) {
        let steps = self
            .call_history
            .record(number, &call.tool, &call.arguments, &result.text);
        match *steps.to_vec() {
            // Other code was requested, and the same is no example of that.
            [earlier, _] if self.answered_since(earlier) => self.going_back_to = Some(earlier),
            [earlier, _] if earlier < number => {
                let texts = self.language().prompts();
                let note = if result.failed {
                    texts.failed_before(earlier)
                } else {
                    texts.done_before(earlier)
                };
                self.add_note(&note);
            }
            [_, second, _, ..] => self.going_back_to = Some(second.min(number)),
            _ => {}
        }
        // What fails again with the same error is forgotten, so that it is no example.
        if let Some(first) = self.failing_alike_since() {
            self.going_back_to = Some(first);
        }
    }

    /// Whether an answer was given since a step began; it was refused, then.
    fn answered_since(&self, step: u32) -> bool {
        let mut steps = self.steps.iter().filter(|other| other.number >= step);
        steps.any(|step| answer_of(step).is_some())
    }

    /// The first of the last steps in which nothing succeeded, if the last failed with an error that
    /// was among them before.
    fn failing_alike_since(&self) -> Option<u32> {
        let error = |call: &Call| -> Option<String> {
            let result = call.result().filter(|result| result.failed)?;
            result.cell.as_ref()?.error.clone()
        };
        let fails = |step: &&Step| {
            let mut results = step.calls.iter().filter_map(Call::result);
            results.all(|result| result.failed)
        };
        let (last, earlier) = self.steps.split_last()?;
        let error_now = last.calls.iter().filter_map(error).next_back()?;
        let failing = earlier.iter().rev().take_while(fails);
        let failing: Vec<&Step> = failing.filter(|step| !step.calls.is_empty()).collect();
        let mut before = failing
            .iter()
            .flat_map(|step| &step.calls)
            .filter_map(error);
        let again = before.any(|error| error == error_now);
        failing.last().filter(|_| again).map(|step| step.number)
    }

    pub(super) fn take_back(&mut self, to: u32, restored: bool, manifest: &[NameInfo]) {
        let last = self.steps.last();
        let result = last.and_then(|step| step.calls.iter().filter_map(Call::result).next_back());
        let words = match result.filter(|result| result.failed) {
            Some(result) => words::failed_again(result, restored, self.language()),
            None if self.answered_since(to) => words::showed_nothing(restored, self.language()),
            None => words::repetition(
                &last.map(words::summary).unwrap_or_default(),
                restored,
                self.language(),
            ),
        };
        self.steps.retain(|step| step.number < to);
        self.collapsed = self.collapsed.min(self.steps.len());
        self.call_history.take_back(to);
        self.manifest = manifest.to_vec();
        self.spent.repeats += 1;
        self.going_back_to = None;
        self.taken_back = Some((self.steps.len(), words));
    }
}
