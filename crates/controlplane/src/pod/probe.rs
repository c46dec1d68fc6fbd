//! Validation of probes and lifecycle handlers.

use kevel_api::name;

use super::container::Context;
use crate::validation::Field;

/// Field of a handler, with its check.
type Handler = (&'static str, fn(Field, &Context));

/// Handlers of probes and lifecycle hooks, in the order in which they are checked.
const HANDLERS: &[Handler] = &[
    ("exec", |exec, _| {
        exec.at("command").must("");
    }),
    ("httpGet", |get, _| http_get(get)),
    ("tcpSocket", |tcp, _| tcp.at("port").port_or_name()),
    ("grpc", |grpc, _| grpc.at("port").in_range(1, 65_535)),
    ("sleep", sleep),
];

pub fn lifecycle(lifecycle: Field, context: &Context) {
    for hook in ["postStart", "preStop"] {
        if lifecycle.at(hook).is_set() {
            handler(lifecycle.at(hook), context);
        }
    }
    let signal = lifecycle.at("stopSignal");
    if signal.is_set() {
        stop_signal(signal, context.os);
    }
}

/// Checks a liveness or startup probe, whose `successThreshold` must be 1.
pub fn liveness(field: Field, context: &Context) {
    if field.is_absent() {
        return;
    }
    probe(field, context);
    let threshold = field.at("successThreshold");
    if threshold.int() != 1 {
        threshold.invalid_as(threshold.int(), "must be 1");
    }
}

pub fn readiness(field: Field, context: &Context) {
    if field.is_absent() {
        return;
    }
    probe(field, context);
    let seconds = field.at("terminationGracePeriodSeconds");
    if seconds.is_set() {
        seconds.invalid("must not be set for readinessProbes");
    }
}

fn probe(probe: Field, context: &Context) {
    handler(probe, context);
    for field in [
        "initialDelaySeconds",
        "timeoutSeconds",
        "periodSeconds",
        "successThreshold",
        "failureThreshold",
    ] {
        probe.at(field).non_negative();
    }
    let seconds = probe.at("terminationGracePeriodSeconds");
    if seconds.is_set() && seconds.int() <= 0 {
        seconds.invalid("must be greater than 0");
    }
}

fn handler(field: Field, context: &Context) {
    let mut found = false;
    for (kind, check) in HANDLERS {
        let action = field.at(kind);
        if action.is_absent() {
            continue;
        }
        match found {
            true => action.forbidden("may not specify more than 1 handler type"),
            false => check(action, context),
        }
        found = true;
    }
    if !found {
        field.required("must specify a handler type");
    }
}

fn http_get(get: Field) {
    get.at("path").must("");
    get.at("port").port_or_name();
    get.at("scheme").one_of(&["HTTP", "HTTPS"]);
    let headers = get.at("httpHeaders");
    for header in headers.items() {
        let name = header.at("name").str();
        name::is_http_header_name(name).into_iter().for_each(|p| headers.invalid_as(name, p));
    }
}

fn sleep(sleep: Field, context: &Context) {
    let seconds = sleep.at("seconds").int();
    let Some(grace) = context.grace_period else { return };
    if !(0..=grace).contains(&seconds) {
        let why =
            format!("must be non-negative and less than terminationGracePeriodSeconds ({grace})");
        sleep.invalid_as(seconds, why);
    }
}

fn stop_signal(signal: Field, os: Option<&str>) {
    match os {
        None => signal.forbidden("may not be set for containers with empty `spec.os.name`"),
        Some("windows") => signal.one_of(&["SIGKILL", "SIGTERM"]),
        Some("linux") => signal.one_of(LINUX_SIGNALS),
        Some(_) => {}
    }
}

const LINUX_SIGNALS: &[&str] = &[
    "SIGABRT",
    "SIGALRM",
    "SIGBUS",
    "SIGCHLD",
    "SIGCLD",
    "SIGCONT",
    "SIGFPE",
    "SIGHUP",
    "SIGILL",
    "SIGINT",
    "SIGIO",
    "SIGIOT",
    "SIGKILL",
    "SIGPIPE",
    "SIGPOLL",
    "SIGPROF",
    "SIGPWR",
    "SIGQUIT",
    "SIGRTMAX",
    "SIGRTMAX-1",
    "SIGRTMAX-10",
    "SIGRTMAX-11",
    "SIGRTMAX-12",
    "SIGRTMAX-13",
    "SIGRTMAX-14",
    "SIGRTMAX-2",
    "SIGRTMAX-3",
    "SIGRTMAX-4",
    "SIGRTMAX-5",
    "SIGRTMAX-6",
    "SIGRTMAX-7",
    "SIGRTMAX-8",
    "SIGRTMAX-9",
    "SIGRTMIN",
    "SIGRTMIN+1",
    "SIGRTMIN+10",
    "SIGRTMIN+11",
    "SIGRTMIN+12",
    "SIGRTMIN+13",
    "SIGRTMIN+14",
    "SIGRTMIN+15",
    "SIGRTMIN+2",
    "SIGRTMIN+3",
    "SIGRTMIN+4",
    "SIGRTMIN+5",
    "SIGRTMIN+6",
    "SIGRTMIN+7",
    "SIGRTMIN+8",
    "SIGRTMIN+9",
    "SIGSEGV",
    "SIGSTKFLT",
    "SIGSTOP",
    "SIGSYS",
    "SIGTERM",
    "SIGTRAP",
    "SIGTSTP",
    "SIGTTIN",
    "SIGTTOU",
    "SIGURG",
    "SIGUSR1",
    "SIGUSR2",
    "SIGVTALRM",
    "SIGWINCH",
    "SIGXCPU",
    "SIGXFSZ",
];
