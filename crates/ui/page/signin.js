// Sign-in by a code of the server's terminal, or by a token.

import { h, show } from "./dom.js";
import { own } from "./api.js";

/** Fills `root` with the form; `done(user)` is called when it has succeeded. */
export function signInView(root, codes, done, reason) {
  const said = h("div", { role: "alert", class: "said" }, reason || "");

  const form = (name, label, hint, input) => {
    const button = h("button", { class: "primary", type: "submit" }, "Sign in");
    return h("form", {
      onsubmit: async (event) => {
        event.preventDefault();
        button.disabled = true;
        said.textContent = "";
        try {
          const { user } = await own("session", { method: "POST", body: { [name]: input.value } });
          done(user);
        } catch (error) {
          said.textContent = error.message;
          input.focus();
        } finally {
          input.value = "";
          button.disabled = false;
        }
      },
    }, h("label", { for: name }, label), hint, h("div", { class: "field" }, input, button));
  };

  const code = h("input", { id: "code", name: "code", autocomplete: "off", spellcheck: "false", placeholder: "XXXX-XXXX-XXXX", required: true, maxlength: "20", class: "mono" });
  const token = h("input", { id: "token", type: "password", autocomplete: "off", spellcheck: "false", required: true, class: "mono" });
  const again = h("button", {
    type: "button", class: "link",
    onclick: async () => {
      try {
        await own("code", { method: "POST" });
        said.textContent = "If none is valid, a new code is on the terminal (at most one in 30 seconds).";
        code.focus();
      } catch (error) { said.textContent = error.message; }
    },
  }, "Print a new one");

  show(root, h("main", { class: "signin", id: "main" },
    h("div", { class: "card" },
      h("div", { class: "brand" }, h("img", { src: "icon.svg", alt: "", width: "40", height: "40" }), h("h1", {}, "Kevel")),
      said,
      codes && form("code", "Code", h("p", { class: "muted" }, "The server has printed a code on its terminal. It signs in as the administrator, once. ", again), code),
      codes && h("div", { class: "or" }, h("span", {}, "or")),
      form("token", "Token", h("p", { class: "muted" }, "A token of your own, such as from ", h("code", {}, "kubectl create token"), ". It stays in the server's memory until you sign out."), token))));
  (codes ? code : token).focus();
}
