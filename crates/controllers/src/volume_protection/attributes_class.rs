//! Finalizer of VolumeAttributesClasses that volumes or claims name.

use std::sync::Arc;

use kevel_api::status::StatusError;
use kevel_api::value::Value;
use kevel_controller_runtime::{Backoff, Client, InformerEvent, WorkQueue, run};

use crate::context::ControllerContext;
use crate::descriptor::ControllerLoop;
use crate::finalizer::{FinalizerNeed, need, write};
use crate::lister::CacheLister;
use crate::unavailable::Unavailable;

const NAME: &str = "volumeattributesclass-protection-controller";
const FINALIZER: &str = "kubernetes.io/vac-protection";

/// Fields of claims that name a class.
const OF_CLAIM: &[&[&str]] = &[
    &["spec", "volumeAttributesClassName"],
    &["status", "currentVolumeAttributesClassName"],
    &["status", "modifyVolumeStatus", "targetVolumeAttributesClassName"],
];
/// Fields of volumes that name a class.
const OF_VOLUME: &[&[&str]] = &[&["spec", "volumeAttributesClassName"]];

struct Classes {
    client: Client,
    classes: CacheLister,
    users: [ClassUsers; 2],
    queue: Arc<WorkQueue>,
}

/// Objects that name classes in some fields.
#[derive(Clone)]
struct ClassUsers {
    lister: CacheLister,
    fields: &'static [&'static [&'static str]],
}

pub(crate) fn build(context: &ControllerContext) -> Result<ControllerLoop, Unavailable> {
    let queue = context.queue("vacprotection", Backoff::default());
    let users = |plural, fields| {
        Ok::<_, Unavailable>(ClassUsers {
            lister: CacheLister::new(context.storage("", plural)?),
            fields,
        })
    };
    let this = Arc::new(Classes {
        client: context.client("volumeattributesclass-protection-controller"),
        classes: CacheLister::new(context.storage("storage.k8s.io", "volumeattributesclasses")?),
        users: [users("persistentvolumes", OF_VOLUME)?, users("persistentvolumeclaims", OF_CLAIM)?],
        queue: queue.clone(),
    });
    let heard = this.clone();
    let classes = this.classes.informer().for_each(move |class| {
        if heard.classes.tree(class).is_ok_and(|class| need(&class, FINALIZER).is_some()) {
            heard.queue.add(class.name());
        }
    });
    let [volumes, claims] = [0, 1].map(|position| {
        let heard = this.clone();
        let users = this.users[position].clone();
        let informer = users.lister.informer();
        informer.run(move |event| heard.hear_user(&users, &event))
    });
    let reconcile = move |name: String| {
        let this = this.clone();
        async move { this.reconcile(&name).await.map_err(|error| error.to_string()) }
    };
    Ok(Box::pin(async move {
        tokio::join!(classes, volumes, claims, run(queue, NAME, 1, reconcile));
    }))
}

impl ClassUsers {
    fn names(&self, object: &Value) -> Vec<String> {
        let names = self.fields.iter().map(|field| object.str_at(field));
        names.filter(|name| !name.is_empty()).map(str::to_owned).collect()
    }

    fn any(&self, class: &str) -> Result<bool, StatusError> {
        for object in self.lister.snapshot().range("", None) {
            kevel_compute::charge(1);
            if self.names(&self.lister.tree(object)?).iter().any(|name| name == class) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl Classes {
    /// Queues the classes that an object no longer names.
    fn hear_user(&self, users: &ClassUsers, event: &InformerEvent<'_>) {
        let (before, now) = match *event {
            InformerEvent::Delete(object) => (object, None),
            InformerEvent::Apply(object, Some(before)) => (before, Some(object)),
            InformerEvent::Apply(_, None) | InformerEvent::Init => return,
            // Objects may have gone unheard.
            InformerEvent::InitDone => {
                let snapshot = self.classes.snapshot();
                snapshot.range("", None).for_each(|class| self.queue.add(class.name()));
                return;
            }
        };
        let Ok(before) = users.lister.tree(before) else { return };
        let mut names = users.names(&before);
        if names.is_empty() {
            return;
        }
        if let Some(now) = now.and_then(|now| users.lister.tree(now).ok()) {
            let kept = users.names(&now);
            names.retain(|name| !kept.contains(name));
        }
        names.iter().for_each(|name| self.queue.add(name));
    }

    async fn reconcile(&self, name: &str) -> Result<(), StatusError> {
        let Some(class) = self.classes.get("", name)? else { return Ok(()) };
        let need = match need(&class, FINALIZER) {
            None => return Ok(()),
            Some(need) => need,
        };
        if need == FinalizerNeed::Remove {
            for users in &self.users {
                if users.any(name)? {
                    return Ok(());
                }
            }
        }
        let path = format!("/apis/storage.k8s.io/v1/volumeattributesclasses/{name}");
        write(&self.client, &path, class, FINALIZER, need).await
    }
}
