// SPDX-License-Identifier: Apache-2.0 OR MIT
// Inflates the plotting library that the page carries, and draws each figure from the JSON in it.
(() => {
  "use strict";

  // Okabe and Ito's colours, which people with colour-blindness tell apart; those too faint on a
  // theme's paper come last in it.
  const THEMES = {
    light: {
      ink: "#1f2328", soft: "#59636e", grid: "#e3e6ea", paper: "#ffffff",
      palette: ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000"],
    },
    dark: {
      ink: "#e6e8eb", soft: "#a3abb5", grid: "#30363d", paper: "#181c21",
      palette: ["#56B4E9", "#E69F00", "#009E73", "#CC79A7", "#F0E442", "#D55E00", "#FFFFFF"],
    },
  };
  // Browsers drop the oldest of more than about 16 WebGL contexts, and a surface may take two.
  const MAX_SPATIAL = 6;
  const PRINT_WIDTH = 660;

  const dark = matchMedia("(prefers-color-scheme: dark)");
  const narrow = matchMedia("(max-width: 560px)");
  const coarse = matchMedia("(pointer: coarse)");
  let printing = false;

  const plots = [...document.querySelectorAll("figure.plot")].map((figure) => ({
    box: figure.querySelector(".plot-box"),
    status: figure.querySelector(".plot-status"),
    spec: JSON.parse(figure.querySelector("script").textContent),
    flat: false,
  }));

  function say(plot, words) {
    plot.status.textContent = words;
    plot.status.hidden = words === "";
  }

  function hasWebGL() {
    const context = document.createElement("canvas").getContext("webgl");
    context?.getExtension("WEBGL_lose_context")?.loseContext();
    return context !== null;
  }

  async function loadLibrary() {
    if (!("DecompressionStream" in window)) {
      throw new Error("this browser cannot inflate the plotting library (it lacks DecompressionStream); a browser of 2023 or later can");
    }
    const packed = atob(document.getElementById("plot-library").textContent.trim());
    const bytes = Uint8Array.from(packed, (char) => char.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    const script = document.createElement("script");
    script.textContent = await new Response(stream).text();
    document.head.append(script);
    script.remove();
  }

  // Replaces `$ink`, `$2` and `$2/0.2` under colour keys, and copies everything else.
  function coloured(value, theme, key) {
    if (Array.isArray(value)) return value.map((item) => coloured(item, theme));
    if (value !== null && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([k, v]) => [k, coloured(v, theme, k)]));
    }
    if (typeof value !== "string" || (key !== "color" && key !== "fillcolor")) return value;
    const token = /^\$(\w+)(?:\/([\d.]+))?$/.exec(value);
    if (token === null) return value;
    const hex = theme[token[1]] ?? theme.palette[Number(token[1])];
    const alpha = Math.round(255 * Number(token[2] ?? 1)).toString(16).padStart(2, "0");
    const [, r, g, b, a] = /^#(..)(..)(..)(..)$/.exec(hex + alpha).map((part) => parseInt(part, 16));
    return `rgba(${r}, ${g}, ${b}, ${a / 255})`;
  }

  function styledAxis(axis, theme, spatial) {
    const lines = { gridcolor: theme.grid, zerolinecolor: theme.grid, linecolor: theme.soft };
    const font = { color: theme.soft };
    const title = axis.title && { ...axis.title, font: { color: theme.ink }, standoff: 12 };
    if (spatial) return { ...lines, showbackground: false, tickfont: font, ...axis, title };
    return { ...lines, showline: true, ticks: "outside", ticklen: 4, tickcolor: theme.soft, tickfont: font, ...axis, title };
  }

  function figure(plot) {
    const theme = THEMES[dark.matches && !printing ? "dark" : "light"];
    const small = narrow.matches && !printing;
    const source = plot.flat ? plot.spec.flat : plot.spec;
    const { data, layout } = coloured({ data: source.data, layout: source.layout }, theme);
    for (const trace of data) {
      if (!trace.colorbar) continue;
      trace.colorbar.tickfont = { color: theme.soft };
      if (small) {
        trace.colorbar.title.side = "top";
        Object.assign(trace.colorbar, { orientation: "h", y: 1.02, yanchor: "bottom", len: 1, thickness: 10 });
      }
    }
    for (const name of ["xaxis", "yaxis"]) {
      if (layout[name]) layout[name] = styledAxis(layout[name], theme, false);
    }
    for (const name of ["xaxis", "yaxis", "zaxis"]) {
      if (layout.scene) layout.scene[name] = styledAxis(layout.scene[name], theme, true);
    }
    const height = plot.flat ? plot.spec.height - 120 : plot.spec.height;
    // The tool bar needs its own strip, or it covers data.
    const bar = !small && !printing && !coarse.matches;
    Object.assign(layout, {
      autosize: !printing,
      width: printing ? PRINT_WIDTH : undefined,
      height: printing ? 340 : small ? Math.min(height, 380) : height,
      margin: { l: 8, r: 12, t: bar ? 40 : 12, b: 8 },
      modebar: { bgcolor: "rgba(0,0,0,0)", color: theme.soft, activecolor: theme.ink },
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: getComputedStyle(document.body).fontFamily, size: small ? 11 : 13, color: theme.ink },
      legend: { orientation: "h", x: 0, xanchor: "left", y: 1.02, yanchor: "bottom", bgcolor: "rgba(0,0,0,0)", itemsizing: "constant" },
      hoverlabel: { bgcolor: theme.paper, bordercolor: theme.soft, font: { color: theme.ink }, align: "left" },
      hovermode: "closest",
      uirevision: "keep",
    });
    if (layout.scene && (small || printing)) {
      // A small view must stand further back to show the axes.
      const eye = layout.scene.camera.eye;
      for (const axis of ["x", "y", "z"]) eye[axis] *= small ? 1.3 : 1.15;
    }
    // There the colour bar has the strip above.
    if (layout.scene && small) Object.assign(layout.legend, { y: 0, yanchor: "top" });
    // A finger that scrolls the page must not zoom what it happens to touch.
    if (!layout.scene) layout.dragmode = coarse.matches ? false : "zoom";
    return { data, layout, bar };
  }

  const CONFIG = {
    responsive: true,
    displaylogo: false,
    scrollZoom: false,
    modeBarButtonsToRemove: ["lasso2d", "select2d", "autoScale2d", "resetCameraLastSave3d"],
    toImageButtonOptions: { format: "png", scale: 2 },
  };

  function draw(plot) {
    const { data, layout, bar } = figure(plot);
    return Plotly.react(plot.box, data, layout, { ...CONFIG, displayModeBar: bar ? "hover" : false });
  }

  const redraw = () => plots.forEach((plot) => plot.drawn && draw(plot));

  async function start() {
    if (plots.length === 0) return;
    try {
      await loadLibrary();
    } catch (error) {
      plots.forEach((plot) => say(plot, `The plot cannot be drawn: ${error.message}. The tables hold the figures.`));
      return;
    }
    const webgl = plots.some((plot) => plot.spec.spatial) && hasWebGL();
    let spatial = 0;
    for (const plot of plots) {
      if (plot.spec.spatial) {
        spatial += 1;
        plot.flat = !webgl || spatial > MAX_SPATIAL;
      }
      say(plot, "");
      if (plot.flat) {
        say(plot, webgl
          ? "Shown flat: the page has more surfaces than a browser draws at once."
          : "Shown flat: this browser has no WebGL, which drawing the surface in three dimensions needs.");
      }
      try {
        await draw(plot);
        plot.drawn = true;
      } catch (error) {
        say(plot, `The plot cannot be drawn: ${error.message}`);
      }
      // Lets the reader scroll between two plots of a long page.
      await new Promise((resolve) => setTimeout(resolve));
    }
    dark.addEventListener("change", redraw);
    narrow.addEventListener("change", redraw);
    addEventListener("beforeprint", () => { printing = true; redraw(); });
    addEventListener("afterprint", () => { printing = false; redraw(); });
    document.documentElement.dataset.plots = "drawn";
  }

  start();
})();
