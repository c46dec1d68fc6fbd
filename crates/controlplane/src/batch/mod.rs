//! `batch`: Job and CronJob.

pub mod cron_job;
mod indexes;
pub mod job;
mod job_status;
mod schedule;
mod time_zone;
