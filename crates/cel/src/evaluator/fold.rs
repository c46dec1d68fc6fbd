//! Evaluation of comprehensions.

use super::evaluate::{Evaluator, Local, Outcome, not_cancelled};
use super::plan::FoldPlan;
use crate::error::Error;
use crate::program::CHECK_FREQUENCY;
use crate::value::Value;

impl<'e, 'a> Evaluator<'e, 'a> {
    pub(super) fn fold(&mut self, fold: &'e FoldPlan) -> Outcome<'a> {
        let range = self.evaluate(&fold.range)?;
        self.locals.truncate(fold.accumulator);
        self.locals.push(Local::Pending(&fold.init));
        self.locals.push(Local::Ready(Ok(Value::Null)));
        self.locals.push(Local::Ready(Ok(Value::Null)));
        match range {
            Value::List(list) => {
                for i in 0..list.len() {
                    let Some(element) = list.get(i) else { break };
                    let more = match fold.two_variables {
                        true => self.round(fold, Ok(Value::Int(i as i64)), element)?,
                        false => self.round(fold, element, Ok(Value::Null))?,
                    };
                    if !more {
                        break;
                    }
                }
            }
            Value::Map(map) => {
                for key in map.keys() {
                    let value = match fold.two_variables {
                        true => map.find(&key).unwrap_or(Ok(Value::Null)),
                        false => Ok(Value::Null),
                    };
                    if !self.round(fold, Ok(key), value)? {
                        break;
                    }
                }
            }
            other => {
                let ty = other.go_type();
                return Err(Error::new(match fold.two_variables {
                    true => format!("unsupported comprehension range type: {ty}"),
                    false => format!("got '{ty}', expected iterable type"),
                }));
            }
        }
        let outcome = self.evaluate(&fold.result);
        self.locals.truncate(fold.accumulator);
        outcome
    }

    /// Runs one iteration; false once the loop is over.
    fn round(
        &mut self,
        fold: &'e FoldPlan,
        first: Outcome<'a>,
        second: Outcome<'a>,
    ) -> Result<bool, Error> {
        let place = fold.accumulator;
        self.set(place + 1, first);
        self.set(place + 2, second);
        if let Ok(Value::Bool(false)) = not_cancelled(self.evaluate(&fold.condition))? {
            return Ok(false);
        }
        let step = not_cancelled(self.evaluate(&fold.step))?;
        self.set(place, step);
        self.rounds = self.rounds.wrapping_add(1);
        if self.rounds.is_multiple_of(CHECK_FREQUENCY)
            && self.budget.interrupted.is_some_and(|stop| stop())
        {
            return Err(Error::interrupted());
        }
        Ok(true)
    }

    fn set(&mut self, place: usize, outcome: Outcome<'a>) {
        if let Some(local) = self.locals.get_mut(place) {
            *local = Local::Ready(outcome);
        }
    }
}
