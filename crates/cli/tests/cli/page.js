// Turns the knobs of the page and writes down what it shows after each turn.
{
  const textOf = id => document.getElementById(id).textContent;
  const look = () => ({
    name: textOf("name"), state: textOf("state"), memory: textOf("memory-out"), why_name: textOf("why-name"),
    figures: Object.fromEntries([...document.querySelectorAll("#figures .figure")]
      .map(figure => [figure.querySelector("span").textContent, figure.querySelector("b").textContent])),
    rows: [...document.querySelectorAll("#table tr.row")].map(row =>
      ({ at: +row.dataset.at, classes: row.className.split(" "), cells: [...row.children].map(cell => cell.textContent) })),
    why: [...document.querySelectorAll("#why li")].map(line => line.textContent),
    circles: document.querySelectorAll("#front circle").length, bands: document.querySelectorAll("#strata rect").length,
  });
  const turn = (id, value, event) => {
    document.getElementById(id).value = value;
    document.getElementById(id).dispatchEvent(new Event(event));
  };
  const seen = { opened: look() };
  const broken = document.querySelector("#table tr.broken");
  if (broken) {
    broken.click();
    seen.broken = look();
  }
  turn("design", "-1", "change");
  seen.cheapest = look();
  turn("memory", "0", "input");
  seen.little_memory = look();
  for (const kind of ["hits", "misses", "scans"]) turn(kind, "0", "input");
  seen.puts_alone = look();
  document.getElementById("back").click();
  seen.back = look();
  const report = document.body.appendChild(document.createElement("pre"));
  report.id = "report";
  report.textContent = JSON.stringify(seen);
}
