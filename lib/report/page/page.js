// Draws the report from `report`: totals, roofs and groups (one a distinct problem). Figures of a group are
// those of one run; `count` says how many there are.
(function () {
  "use strict";
  const prefixes = ["", "k", "M", "G", "T", "P", "E"];
  function scaled(value, unit) {
    if (value === undefined || value === null) return "–";
    if (value === 0) return "0 " + unit;
    let step = 0;
    while (Math.abs(value) >= 1000 && step < 6) { value /= 1000; ++step; }
    return Number(value.toPrecision(3)) + " " + prefixes[step] + unit;
  }
  function seconds(t) {
    if (t === undefined || t === null) return "–";
    if (t === 0) return "0 s";
    if (t < 1e-6) return Number((t * 1e9).toPrecision(3)) + " ns";
    if (t < 1e-3) return Number((t * 1e6).toPrecision(3)) + " µs";
    if (t < 1) return Number((t * 1e3).toPrecision(3)) + " ms";
    return Number(t.toPrecision(3)) + " s";
  }
  const percent = v => v === undefined ? "–" : (100 * v).toFixed(1) + " %";
  const totals = report.totals, groups = report.groups;
  const css = g => g.bound || "none";

  // ---- Head
  document.title = report.model + " on " + report.hardware;
  d3.select("#title").text(report.model);
  d3.select("#subtitle").text(report.hardware + ", " + report.devices + (report.devices === 1 ? " device, " : " devices, ") + report.time_model + " model" +
    (report.symbols ? " · " + report.symbols : ""));
  const answers = [["bound", totals.bound || "–"], ["time", seconds(totals.time)], ["T_math", seconds(totals.t_math)], ["T_hbm", seconds(totals.t_hbm)],
    ["T_net", seconds(totals.t_net)], ["MFU", percent(totals.mfu)], ["FLOPs", scaled(totals.flops, "FLOP")],
    ["FLOP/B", totals.intensity === undefined ? "–" : Number(totals.intensity.toPrecision(3))], ["memory", scaled(totals.peak_memory, "B")]];
  const entry = d3.select("#answers").selectAll("div").data(answers).enter().append("div");
  entry.append("dt").text(d => d[0]);
  entry.append("dd").text(d => d[1]);
  const shares = totals.bound_shares ? Object.keys(totals.bound_shares).filter(b => totals.bound_shares[b] > 0) : [];
  d3.select("#shares").selectAll("span").data(shares).enter().append("span").attr("class", b => b)
    .style("width", b => 100 * totals.bound_shares[b] + "%").text(b => b + " " + percent(totals.bound_shares[b]));

  // ---- Roofline
  const tip = d3.select("#tip");
  function show(g) {
    tip.style("opacity", 1).style("left", Math.min(d3.event.clientX + 14, innerWidth - 330) + "px").style("top", d3.event.clientY + 10 + "px")
      .text(g.op + "  " + g.size + "  × " + g.count + "\n" + g.at + "\ntime " + seconds(g.time) + (g.count > 1 ? " each, " + seconds(g.time * g.count) + " in all" : "") +
        "\nT_math " + seconds(g.t_math) + "   T_hbm " + seconds(g.t_hbm) + "\n" + scaled(g.flops, "FLOP") + ", " + scaled(g.bytes, "B") + "\n" + css(g) + "-bound");
  }
  const width = 1000, height = 520, margin = {left: 64, right: 24, top: 12, bottom: 44};
  const points = groups.filter(g => g.flops > 0 && g.bytes > 0 && g.time > 0);
  const rate = g => g.flops / g.time, intensity = g => g.flops / g.bytes;
  const roofs = report.roofs, bandwidth = report.bandwidth;
  const knees = bandwidth ? roofs.map(r => r.peak / bandwidth) : [];
  const xs = points.map(intensity).concat(knees), ys = points.map(rate).concat(roofs.map(r => r.peak));
  const x = d3.scale.log().domain([d3.min(xs) / 3 || 0.01, d3.max(xs) * 4 || 1000]).range([margin.left, width - margin.right]);
  const y = d3.scale.log().domain([d3.min(ys) / 3 || 1e9, d3.max(ys) * 2 || 1e15]).range([height - margin.bottom, margin.top]);
  const svg = d3.select("#roofline").attr("viewBox", "0 0 " + width + " " + height)
    .attr("data-x-domain", x.domain().join(" ")).attr("data-x-range", x.range().join(" "))
    .attr("data-y-domain", y.domain().join(" ")).attr("data-y-range", y.range().join(" "));
  const power = d3.format("s");
  const decades = scale => scale.ticks().filter(v => Math.abs(Math.log10(v) - Math.round(Math.log10(v))) < 1e-6);
  svg.append("g").attr("class", "axis").attr("transform", "translate(0," + (height - margin.bottom) + ")")
    .call(d3.svg.axis().scale(x).orient("bottom").tickValues(decades(x)).tickFormat(power));
  svg.append("g").attr("class", "axis").attr("transform", "translate(" + margin.left + ",0)")
    .call(d3.svg.axis().scale(y).orient("left").tickValues(decades(y)).tickFormat(power));
  svg.append("text").attr("x", width - margin.right).attr("y", height - 8).attr("text-anchor", "end").text("FLOP per byte of memory traffic");
  svg.append("text").attr("x", margin.left - 6).attr("y", margin.top - 2).attr("text-anchor", "end").text("FLOP/s");
  roofs.forEach(function (roof) {
    const knee = bandwidth ? roof.peak / bandwidth : x.domain()[0];
    const start = Math.max(x.domain()[0], Math.min(knee, x.domain()[1]));
    svg.append("path").attr("class", "roof " + roof.unit).attr("d", "M" + x(start) + "," + y(roof.peak) + "H" + x(x.domain()[1]));
    svg.append("text").attr("x", x(x.domain()[0]) + 8).attr("y", y(roof.peak) - 5).text(roof.name + " " + scaled(roof.peak, "FLOP/s"));
    if (bandwidth && knee > x.domain()[0] && knee < x.domain()[1])
      svg.append("line").attr("class", "knee").attr("x1", x(knee)).attr("x2", x(knee)).attr("y1", y(roof.peak)).attr("y2", height - margin.bottom)
        .append("title").text("knee of " + roof.name + ": " + Number(knee.toPrecision(3)) + " FLOP/B");
  });
  if (bandwidth && roofs.length) {
    const top = d3.max(roofs, r => r.peak), left = Math.max(x.domain()[0], y.domain()[0] / bandwidth);
    svg.append("path").attr("class", "roof").attr("d", "M" + x(left) + "," + y(left * bandwidth) + "L" + x(top / bandwidth) + "," + y(top));
    svg.append("text").attr("x", x(left) + 8).attr("y", y(left * bandwidth) - 12).text("memory " + scaled(bandwidth, "B/s"));
  }
  const longest = d3.max(points, g => g.time * g.count) || 1;
  const circles = svg.append("g").selectAll("circle").data(points).enter().append("circle")
    .attr("class", css).attr("tabindex", 0).attr("data-group", g => g.id).attr("data-intensity", intensity).attr("data-rate", rate)
    .attr("cx", g => x(intensity(g))).attr("cy", g => y(rate(g))).attr("r", g => 3 + 17 * Math.sqrt(g.time * g.count / longest))
    .on("mousemove", show).on("mouseout", () => tip.style("opacity", 0))
    .on("click", g => choose(g.id, true)).on("keydown", function (g) { if (d3.event.key === "Enter") choose(g.id, true); });
  circles.append("title").text(g => g.op + " " + g.size + ", " + css(g));

  // ---- Table of groups
  const columns = [["share", g => totals.time ? g.time * g.count / totals.time : undefined, percent, true], ["time", g => g.time * g.count, seconds, true],
    ["×", g => g.count, v => String(v), true], ["op", g => g.op, v => v, false], ["at", g => g.at, v => v, false], ["shape", g => g.size, v => v, false],
    ["FLOPs", g => g.flops * g.count, v => scaled(v, ""), true], ["bytes", g => g.bytes * g.count, v => scaled(v, "B"), true],
    ["FLOP/B", g => g.bytes ? intensity(g) : undefined, v => v === undefined ? "–" : Number(v.toPrecision(3)), true], ["bound", css, v => v, false]];
  let order = 1, upward = false;
  const most = 400;  // rows drawn; the filter finds the others
  function matches(g) {
    const wanted = d3.select("#filter").property("value").toLowerCase();
    return !wanted || (g.op + " " + g.at + " " + g.size).toLowerCase().indexOf(wanted) >= 0;
  }
  d3.select("#ops thead").append("tr").selectAll("th").data(columns).enter().append("th").attr("scope", "col").attr("class", c => c[3] ? "number" : null)
    .text(c => c[0]).on("click", function (c, i) { upward = order === i && !upward; order = i; table(); });
  function table() {
    const value = columns[order][1];
    const rows = groups.filter(matches).sort((a, b) => (upward ? 1 : -1) * d3.ascending(value(a), value(b)));
    d3.select("#shown").text(rows.length + " of " + groups.length + " distinct problems, " + report.ops + " ops" + (rows.length > most ? "; the first " + most + " are listed" : ""));
    const body = d3.select("#ops tbody");
    body.selectAll("tr").remove();
    const line = body.selectAll("tr").data(rows.slice(0, most)).enter().append("tr").attr("id", g => "group-" + g.id);
    columns.forEach(function (c) {
      const cell = line.append("td").attr("class", c[3] ? "number" : null);
      if (c[0] === "bound") cell.append("span").attr("class", g => "tag " + css(g));
      cell.append("span").text(g => c[2](c[1](g)));
    });
    circles.classed("off", g => !matches(g));
  }
  function choose(id, scroll) {
    d3.selectAll("#ops tr").classed("chosen", false);
    const row = d3.select("#group-" + id).classed("chosen", true).node();
    if (row && scroll) row.scrollIntoView({block: "center"});
  }
  d3.select("#filter").on("input", table);
  table();

  // ---- Bars
  function bars() {
    const by = d3.select("#by").property("value");
    let rows = report.sums[by].slice().sort((a, b) => b.time - a.time);
    const all = rows.length;
    rows = rows.slice(0, 20);
    const step = 22, chart = d3.select("#bars").attr("viewBox", "0 0 1000 " + (rows.length * step + 24));
    chart.selectAll("*").remove();
    const across = d3.scale.linear().domain([0, d3.max(rows, r => r.time) || 1]).range([0, 560]);
    const bar = chart.selectAll("g").data(rows).enter().append("g").attr("transform", (r, i) => "translate(0," + i * step + ")");
    bar.append("text").attr("x", 300).attr("y", 14).attr("text-anchor", "end").text(r => r.name.length > 46 ? "…" + r.name.slice(-45) : r.name);
    bar.append("rect").attr("x", 308).attr("y", 3).attr("height", step - 7).attr("width", r => Math.max(1, across(r.time))).attr("class", r => r.bound);
    bar.append("text").attr("x", r => 314 + across(r.time)).attr("y", 14).text(r => seconds(r.time) + (totals.time ? "  " + percent(r.time / totals.time) : ""));
    if (all > rows.length) chart.append("text").attr("x", 308).attr("y", rows.length * step + 16).text("… and " + (all - rows.length) + " more");
  }
  d3.select("#by").on("change", bars);
  bars();

  // ---- Memory
  if (totals.peak_memory === undefined) d3.select("#memory-section").attr("hidden", true);
  else {
    const limit = totals.memory_capacity, most = Math.max(totals.peak_memory, limit || 0);
    const across = d3.scale.linear().domain([0, most]).range([0, 760]);
    const chart = d3.select("#memory").attr("viewBox", "0 0 1000 56");
    chart.append("rect").attr("x", 0).attr("y", 6).attr("height", 20).attr("width", across(totals.peak_memory)).attr("class", totals.fits === false ? "communication" : "compute");
    if (limit) chart.append("line").attr("class", "roof").attr("x1", across(limit)).attr("x2", across(limit)).attr("y1", 0).attr("y2", 32);
    chart.append("text").attr("x", 0).attr("y", 46).text(scaled(totals.peak_memory, "B") + " at the peak" + (limit ? " of " + scaled(limit, "B") : "") + (totals.why_not ? ": " + totals.why_not : ""));
  }

  // ---- Collectives and coverage
  if (report.collectives.length) {
    d3.select("#collectives-section").attr("hidden", null);
    const names = ["kind", "axis", "link", "algorithm", "ranks", "bytes", "wire_bytes", "count", "t_net", "exposed"];
    d3.select("#collectives thead").append("tr").selectAll("th").data(names).enter().append("th").attr("scope", "col").text(n => n);
    d3.select("#collectives tbody").selectAll("tr").data(report.collectives).enter().append("tr")
      .selectAll("td").data(c => names.map(n => n === "t_net" || n === "exposed" ? seconds(c[n]) : n.indexOf("bytes") >= 0 ? scaled(c[n], "B") : c[n])).enter().append("td").text(v => v);
  }
  d3.select("#coverage").selectAll("li").data(report.notes).enter().append("li").text(n => n);
})();
