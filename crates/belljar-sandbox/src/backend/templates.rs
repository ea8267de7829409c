//! The templates of an engine: one for all sessions, one for each tenant, and one for each session
//! of the `fresh` backend; and when they are replaced.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::backend::template::Template;
use crate::backend::warm::WarmBackend;
use crate::error::Error;
use crate::lock::lock;
use crate::options::Rotation;

/// How long an idle tenant's template is kept.
const TENANT_IDLE: Duration = Duration::from_mins(10);

/// Whose template.
type Tenant = Option<String>;

/// The templates that serve more than one session.
#[derive(Debug, Default)]
pub(crate) struct Templates {
    rotation: Rotation,
    slots: Mutex<HashMap<Tenant, Arc<tokio::sync::Mutex<Slot>>>>,
}

/// One tenant's template. Whoever starts it holds the lock, so that it is started once.
#[derive(Debug, Default)]
struct Slot {
    template: Option<Arc<Template>>,
    used: Option<Instant>,
    replacing: bool,
}

impl Templates {
    pub(crate) fn new(rotation: Rotation) -> Self {
        Self {
            rotation,
            ..Self::default()
        }
    }

    fn slot(&self, tenant: &Tenant) -> Arc<tokio::sync::Mutex<Slot>> {
        let mut slots = lock(&self.slots);
        if let Some(slot) = slots.get(tenant) {
            return Arc::clone(slot);
        }
        // A new tenant is a good moment to look for idle ones.
        slots.retain(|other, slot| {
            let Ok(mut slot) = slot.try_lock() else {
                return true;
            };
            let idle = slot.used.is_some_and(|used| used.elapsed() > TENANT_IDLE);
            if other.is_some() && idle {
                if let Some(template) = slot.template.take() {
                    template.retire();
                }
                return false;
            }
            true
        });
        Arc::clone(slots.entry(tenant.clone()).or_default())
    }

    fn is_worn(&self, template: &Template) -> bool {
        let Rotation { sessions, age } = self.rotation;
        sessions.is_some_and(|most| template.forks() >= most)
            || age.is_some_and(|most| template.age() >= most)
    }
}

impl WarmBackend {
    /// The tenant's template, started where there is none or the last one died.
    pub(crate) async fn template(
        self: &Arc<Self>,
        tenant: &Tenant,
    ) -> Result<Arc<Template>, Error> {
        let slot = self.templates().slot(tenant);
        let mut slot = slot.lock().await;
        slot.used = Some(Instant::now());
        if let Some(template) = slot
            .template
            .as_ref()
            .filter(|template| !template.is_dead())
        {
            let template = Arc::clone(template);
            if !slot.replacing && self.templates().is_worn(&template) {
                slot.replacing = true;
                tokio::spawn(Arc::clone(self).rotate(tenant.clone()));
            }
            return Ok(template);
        }
        let template = self.new_template(tenant.clone()).await?;
        slot.template = Some(Arc::clone(&template));
        Ok(template)
    }

    /// A template whose memory is as the imports left it, for one session or for measuring. The
    /// caller retires it.
    pub(crate) async fn plain_template(self: &Arc<Self>) -> Result<Arc<Template>, Error> {
        let template = Arc::new(self.start_template(None, false).await?);
        self.listen_to(&template, |_| {});
        Ok(template)
    }

    /// Replaces an aged template.
    async fn rotate(self: Arc<Self>, tenant: Tenant) {
        let new = self.new_template(tenant.clone()).await;
        let slot = self.templates().slot(&tenant);
        let mut slot = slot.lock().await;
        slot.replacing = false;
        match new {
            Ok(new) => {
                if let Some(old) = slot.template.replace(new) {
                    old.retire();
                }
            }
            Err(error) => tracing::error!(%error, "an aged template could not be replaced"),
        }
    }

    async fn new_template(self: &Arc<Self>, tenant: Tenant) -> Result<Arc<Template>, Error> {
        let template = Arc::new(self.start_template(tenant.as_deref(), true).await?);
        // If it dies, the next one is ready before the next request.
        self.listen_to(&template, move |warm| {
            tokio::spawn(warm.replace_dead(tenant));
        });
        Ok(template)
    }

    // Boxed, since `template` starts a task that ends here.
    fn replace_dead(self: Arc<Self>, tenant: Tenant) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(async move {
            tracing::warn!("a template died and is being replaced");
            if let Err(error) = self.template(&tenant).await {
                tracing::error!(%error, "a dead template could not be replaced");
            }
        })
    }

    /// Handles messages of a template; `died` is called if it ended without being retired.
    fn listen_to(
        self: &Arc<Self>,
        template: &Arc<Template>,
        died: impl FnOnce(Arc<WarmBackend>) + Send + 'static,
    ) {
        let (template, warm) = (Arc::clone(template), Arc::downgrade(self));
        tokio::spawn(async move {
            let sessions = warm.clone();
            template
                .listen(move |id, status| {
                    if let Some(warm) = sessions.upgrade() {
                        warm.report_exit(|exit_id, _| exit_id == id, status);
                    }
                })
                .await;
            let warm = warm.upgrade().filter(|warm| !warm.is_down());
            if let Some(warm) = warm.filter(|_| !template.is_retired()) {
                died(warm);
            }
        });
    }
}
