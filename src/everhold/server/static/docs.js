"use strict";
window.addEventListener("load", () => {
  SwaggerUIBundle({
    url: "/openapi.json",
    dom_id: "#swagger",
    validatorUrl: null,
    deepLinking: true,
    docExpansion: "list",
    persistAuthorization: false,
  });
});
