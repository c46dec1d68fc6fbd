//! The cluster that is attacked: a namespace, a user who has it, an object of each kind.

use std::sync::Arc;

use kevel_api::builtin::Resource;
use kevel_conformance::Result;
use kevel_conformance::client::{Client, Request};
use kevel_conformance::control_plane::ControlPlane;
use serde_json::{Value, json};

use crate::Undo;
use crate::base;

pub const NAMESPACE: &str = "hostile";
/// User with permissions in the namespace only.
const USER: &str = "mallory";

/// The cluster.
pub struct World {
    pub client: Arc<Client>,
    objects: Vec<Object>,
}

/// A kind, with an object of it.
#[derive(Clone, Debug)]
pub struct Object {
    pub kind: String,
    pub api_version: String,
    /// `/api/v1/namespaces/hostile/pods`
    pub collection: String,
    /// The smallest object that is accepted, as far as that is known.
    pub base: Value,
    /// Path of the object that exists from the start, under the name `base`.
    pub place: Option<usize>,
    namespaced: bool,
}

impl Object {
    /// A request with a JSON body, by who may make it.
    pub fn send(&self, method: http::Method, path: &str, body: String) -> Request {
        let request = Request::new(method, path).with_body("application/json", body);
        self.by_user(request)
    }

    pub fn patch(&self, path: &str, kind: &str, body: String) -> Request {
        let media = format!("application/{kind}");
        self.by_user(Request::new(http::Method::PATCH, path).with_body(&media, body))
    }

    fn by_user(&self, request: Request) -> Request {
        match self.namespaced {
            true => request.with_header("impersonate-user", USER),
            false => request,
        }
    }
}

impl World {
    pub async fn prepare(plane: &ControlPlane) -> Result<Self> {
        let client = Arc::new(plane.client(16)?);
        for (path, object) in base::cluster(USER, NAMESPACE) {
            let answer = client.send(Request::post(&path, &object)).await?;
            // Some of it is made by the server itself.
            if !matches!(answer.code, 200..300 | 409) {
                return Err(format!("{path}: {}", String::from_utf8_lossy(&answer.body)).into());
            }
        }
        let mut world = World { client, objects: Vec::new() };
        world.until_served("/apis/hostile.example.com/v1/namespaces/hostile/widgets").await?;
        for (place, mut object) in base::objects().into_iter().enumerate() {
            object.place = Some(place);
            world.make(&object).await?;
            world.objects.push(object);
        }
        Ok(world)
    }

    /// The object of a resource, or the beginnings of one.
    pub fn object(&self, resource: &Resource) -> Object {
        let known = self.objects.iter().find(|object| object.collection == collection(resource));
        known.cloned().unwrap_or_else(|| object(resource, json!({})))
    }

    /// One of the objects that are there, by its kind.
    pub fn known(&self, kind: &str) -> Option<&Object> {
        self.objects.iter().find(|object| object.kind == kind)
    }

    /// Undoes what a case has done.
    pub async fn undo(&self, what: &Undo) -> Result<()> {
        match what {
            Undo::Nothing => {}
            Undo::Delete(path) => self.delete(path).await?,
            Undo::Restore(place) => {
                let Some(object) = self.objects.get(*place) else { return Ok(()) };
                self.delete(&format!("{}/base", object.collection)).await?;
                self.make(object).await?;
            }
        }
        Ok(())
    }

    async fn make(&self, object: &Object) -> Result<()> {
        let mut value = object.base.clone();
        value["metadata"]["name"] = "base".into();
        let answer = self.client.send(Request::post(&object.collection, &value)).await?;
        match answer.code {
            200..300 => Ok(()),
            code => {
                let text = String::from_utf8_lossy(&answer.body);
                Err(format!("{} {}: {code} {text}", object.kind, object.collection).into())
            }
        }
    }

    /// Deletes an object for good, if it is there.
    async fn delete(&self, path: &str) -> Result<()> {
        let gone = json!({"metadata": {"finalizers": null}});
        for _ in 0..20 {
            let now = format!("{path}?gracePeriodSeconds=0&propagationPolicy=Background");
            if self.client.send(Request::delete(now)).await?.code == 404 {
                return Ok(());
            }
            self.client.send(Request::patch(path, "merge-patch+json", &gone)).await?;
            // Only this benchmark deletes objects in the namespace.
            if let Some(name) =
                path.strip_prefix("/api/v1/namespaces/").filter(|n| !n.contains('/'))
            {
                let empty = json!({"metadata": {"name": name}, "spec": {}});
                self.client.send(Request::put(format!("{path}/finalize"), &empty)).await?;
            }
        }
        Err(format!("{path} does not go away").into())
    }

    async fn until_served(&self, path: &str) -> Result<()> {
        for _ in 0..1000 {
            if self.client.send(Request::get(path)).await?.code == 200 {
                return Ok(());
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        Err(format!("{path} is not served").into())
    }
}

/// The path that objects of a resource are made at.
pub fn collection(resource: &Resource) -> String {
    let root = match resource.group {
        "" => format!("/api/{}", resource.version),
        group => format!("/apis/{group}/{}", resource.version),
    };
    match resource.namespaced {
        true => format!("{root}/namespaces/{NAMESPACE}/{}", resource.path),
        false => format!("{root}/{}", resource.path),
    }
}

/// An object of a resource with something in it.
pub fn object(resource: &Resource, rest: Value) -> Object {
    let api_version = match resource.group {
        "" => resource.version.to_owned(),
        group => format!("{group}/{}", resource.version),
    };
    let mut base = json!({"apiVersion": api_version, "kind": resource.kind, "metadata": {}});
    for (key, value) in rest.as_object().into_iter().flatten() {
        base[key] = value.clone();
    }
    Object {
        kind: resource.kind.to_owned(),
        api_version,
        collection: collection(resource),
        base,
        place: None,
        namespaced: resource.namespaced,
    }
}

/// An object of a custom kind.
pub fn custom(kind: &str, plural: &str, rest: Value) -> Object {
    let api_version = "hostile.example.com/v1".to_owned();
    let mut base = json!({"apiVersion": api_version, "kind": kind, "metadata": {}});
    for (key, value) in rest.as_object().into_iter().flatten() {
        base[key] = value.clone();
    }
    Object {
        kind: kind.to_owned(),
        collection: format!("/apis/{api_version}/namespaces/{NAMESPACE}/{plural}"),
        api_version,
        base,
        place: None,
        namespaced: true,
    }
}
